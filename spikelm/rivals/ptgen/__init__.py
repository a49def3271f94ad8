"""The pointer-generator, which writes or copies words (See, Liu and Manning, ACL 2017; docs/paper/plain_rivals.md).

May import what rivals may.
"""
