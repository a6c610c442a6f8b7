"""A finished plan as launch files of serving engines and clusters. It reads result documents and computes no plan."""
