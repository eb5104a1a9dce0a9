"""An open session: its log, what was set in it, how it is opened, counted and prompted. Start at
`state`.
"""
