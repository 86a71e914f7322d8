"""How attention is computed: pure functions behind one protocol."""
