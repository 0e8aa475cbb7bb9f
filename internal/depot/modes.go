package depot

func (d *Depot) wideModes() string { return "" }
