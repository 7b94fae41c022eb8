"""What the sources' answers mean: slices, hosts, groups, gangs. Pure: no I/O, no clock."""
