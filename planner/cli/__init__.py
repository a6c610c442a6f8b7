"""Commands: parse, call, render. The only room that sees everything."""
