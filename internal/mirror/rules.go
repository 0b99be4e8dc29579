package mirror

// validateRules has the parts that understand rules compile them.
func (o *Options) validateRules() error { return nil }
