"""Tokenizers: texts as tokens with the characters they stand for, windows, special tokens and replacements."""
