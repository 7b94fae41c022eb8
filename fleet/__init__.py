"""What the sources' answers mean: slices, hosts, placement groups, gangs. Pure: no I/O, no clock."""
