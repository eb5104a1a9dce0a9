"""Rules as people state them, written by hand for the generated sessions, before any extractor was
looked at.

`KEYWORD` rules have one of never, always, must, please or its German or Chinese like; `PLAIN` rules
have none. `MANY` is a stock of parts for sessions with more rules than fit.
"""

from __future__ import annotations

KEYWORD: tuple[str, ...] = (
    "Never log customer e-mail addresses, not even hashed.",
    "Always run make lint before you tell me you are done.",
    "Every handler must return the request id in a header.",
    "Please keep the changelog up to date with each change.",
    "The config file must stay readable by version 1.4.",
    "Amounts must be integers in cents, floats are forbidden.",
    "Please write docstrings in the imperative.",
    "You must not rename columns that the dashboards read.",
    "Never force-push, even on your own branches.",
    "Always pin the container images by digest.",
    "For the reports, please use the fiscal year that starts in October.",
    "Error texts must tell the user what to do next.",
    "If you are unsure about a price, always ask the billing team instead of guessing.",
    "Ändere nie die Schnittstelle ohne Rücksprache mit mir.",
    "Bitte schreibe alle Kommentare auf Deutsch.",
    "Die Rechnungsnummer muss lückenlos fortlaufen.",
    "Immer zuerst den Test schreiben, dann den Code.",
    "Niemals echte Kundendaten in die Testdaten übernehmen.",
    "Bitte in den Antworten keine Emojis verwenden.",
    "Jede Migration muss sich zurückrollen lassen.",
    "永远不要直接修改生产数据库。",
    "提交之前必须先跑完全部测试。",
    "请用中文回答我的所有问题。",
    "每个接口都必须有超时设置。",
    "请不要在日志里打印用户的手机号。",
    "总是先备份再执行迁移脚本。",
)

PLAIN: tuple[str, ...] = (
    "Don't touch the migrations folder, the ops team owns it.",
    "The API has to stay backwards compatible with the 2.x clients.",
    "I want all timestamps in UTC, stored as integers.",
    "Use tabs in the Go files and two spaces in the YAML.",
    "No new dependencies without asking me first.",
    "From now on commit messages start with the ticket number.",
    "Answers in bullet points, no essays.",
    "Anything that talks to the payment provider goes through PaymentGateway.",
    "We only support Postgres 14 and later.",
    "Leave the German comments in legacy/ as they are.",
    "Tests run with -race, otherwise I don't trust them.",
    "I prefer plain SQL over the ORM for the reports.",
    "Make sure the exported CSV uses semicolons, our accounting tool chokes on commas.",
    "Secrets stay in the vault; nothing of that kind goes into the repo.",
    "Stick to the naming scheme svc-team-purpose for new services.",
    "The response may not take longer than 300 ms at p95.",
    "Open a pull request instead of pushing to main.",
    "Each endpoint needs a rate limit.",
    "Lass die Finger von der Datei kernel.conf.",
    "Ab jetzt werden Beträge mit Komma und zwei Nachkommastellen ausgegeben.",
    "Für neue Module gilt: höchstens 300 Zeilen pro Datei.",
    "Wir duzen die Kunden in allen Texten.",
    "Keine externen Schriften einbinden, das verbietet der Datenschutz.",
    "Verwende für Datumsangaben das Format JJJJ-MM-TT.",
    "所有时间都按 UTC 存储。",
    "提交信息用英文写，一行不超过五十个字符。",
    "别动 legacy 目录下的代码。",
    "接口返回的字段名统一用小写下划线。",
    "新增依赖之前先问我。",
    "金额一律用整数分来表示。",
)

MANY_SUBJECTS: tuple[str, ...] = (
    "the invoice export", "the login page", "the search index", "the billing worker",
    "the audit trail", "the mobile client", "the webhook receiver", "the nightly import",
    "the admin console", "the mail templates", "the pricing table", "the session store",
    "the upload service", "the health check", "the feature flags", "the data lake job",
    "the partner feed", "the address form", "the refund flow", "the tax module",
)  # fmt: skip
MANY_RULES: tuple[str, ...] = (
    "Never deploy a change to {} on a Friday, the people who could repair it are away.",
    "Always keep the old format of {} readable for at least two releases.",
    "Changes to {} must be reviewed by two people from the platform team.",
    "Please describe every change to {} in the operations handbook as well.",
    "Don't add a retry to {} without a limit and a jitter.",
    "From now on write an integration test for {} before you change anything there.",
    "I want {} to work without JavaScript and without any third-party cookie.",
    "Use the shared client for {}, no hand-made connections.",
)

CHATTER: tuple[str, ...] = (
    "Thanks, that looks better than before.",
    "Hm, where does this number come from?",
    "ok, go on",
    "Can you show me the part that failed?",
    "I had lunch with the team and we talked about the release.",
    "What did the second run say?",
    "It crashed again on my laptop this morning.",
    "Good. The demo went well yesterday, they liked the new colours.",
    "Which of the two files is larger?",
    "Run it once more and tell me how long it took.",
    "Super, danke dir!",
    "Wie viele Zeilen hat die Datei jetzt?",
    "Das hat gestern noch funktioniert, komisch.",
    "Zeig mir mal den Stand von heute.",
    "好的，继续。",
    "这个错误是什么时候开始出现的？",
    "刚才那次运行花了多久？",
    "昨天的演示很顺利。",
)

LEAD_INS: tuple[str, ...] = (
    "",
    "Before I forget:",
    "One more thing.",
    "I talked to Jana about it.",
    "The tests are green again.",
    "So, next part.",
    "That was quick, thanks.",
)
TAILS: tuple[str, ...] = (
    "",
    "Then have a look at the parser.",
    "What is the state of the importer?",
    "Go on with the second table.",
    "Can you look at why the job was slow last night?",
    "Tell me what you find.",
)
