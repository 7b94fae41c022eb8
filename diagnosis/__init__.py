"""Which slices and reservations are hung, split or incomplete, and why. Pure: no I/O, no clock."""
