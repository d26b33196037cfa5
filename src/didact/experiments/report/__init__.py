"""The kit of reports, which knows no kind of recipe: a page, tables, charts, numbers in words, and files."""
