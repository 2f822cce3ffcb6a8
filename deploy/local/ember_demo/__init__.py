"""The demo of EmberKV: real engines, a real store, a router, and the experiment that shows what
they are for.
"""
