"""The signatures of other attentions, argument by argument, over jfa.attention().

Change one import line: `from jfa.compat.flash_attn import flash_attn_varlen_func`. What jfa cannot do is refused by
name and value, never approximated; docs/python.md of the project has the tables.
"""
