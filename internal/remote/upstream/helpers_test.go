package upstream

const (
	pdbKey  = "F9EFE0B6AE7500394C4C44205044422E1"
	progID  = "adac45aa231bba3143d7af433767c61f31021c16"
	pdbPath = "hello-x64.pdb/" + pdbKey + "/hello-x64.pdb"
)
