"""Readers: what a network is fed, which units there are, and how an absent unit is shown; one file each."""
