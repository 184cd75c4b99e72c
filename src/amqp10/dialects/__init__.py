"""The dialects: a folder each, whose package exports `DIALECT`; `_kit` contains what several of them share.

`engine/_dialect.py` has their names, and imports a dialect when its name is first used.
"""
