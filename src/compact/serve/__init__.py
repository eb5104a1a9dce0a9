"""A thin proxy in front of a model's server (extra `serve`): `compactctl serve --upstream URL`.

Clients stay as they are. A request that fits its window passes byte for byte. One that does not is
made to fit, so that a server which cuts prompts silently never gets to cut.
"""
