"""The checks of a record, one kind a module: functions of a case that yield findings or inversions."""
