"""A grammar for each format: files that know the fields, and lie in them. `FORMATS` lists them.

A grammar is a function of a `Hostile`, a source of honest and dishonest values, that gives a `Case`: files by name, which
of them is opened, and the options that name the others. How much of a file lies is decided once for each file, so that
most of it is still read as what it pretends to be.
"""
