"""The blind study with people, as pure logic: what is shown to whom, answers that are stored once, and what they show.

    study = Study.create(folder, design, material)      a folder with everything that the study needs
    session = study.join(code)                          an invitation code becomes a session, or goes on with one
    page = study.next(session.token)                    what to show now, blind
    page = study.answer(session.token, page.id, value)  store the answer, once, and get what to show next
    study.results()                                     worths of explainers, or gains, with intervals

Two protocols, never merged: *rank* asks which explanation people would give themselves (plausibility), *simulate*
measures whether explanations help people to predict the model (usefulness). Whoever draws pages needs ``join``,
``next`` and ``answer`` alone; a page says nothing about methods.

    design          what a study is                      orders, plan    who sees what in which order
    material        items and their explanations         pages           a planned page as it is shown, blind
    responses       answers as they are stored           ledger          events in SQLite, appended and never changed
    registration    what is fixed before answers come    session         a study on disk: join, next, answer
    rows            answers as a table                   rankings, gains the analysis of both protocols
    skill           SMaT's ratings, by openskill         results, export what the owner gets
    simulated       raters with planted preferences, to try a study before people do
"""
