package clientsetup

import "golang.org/x/sys/windows/registry"

// registeredKits returns the folders of the Windows Kits that their setup has entered.
func registeredKits() []string {
	var out []string
	for _, access := range []uint32{registry.WOW64_64KEY, registry.WOW64_32KEY} {
		k, err := registry.OpenKey(registry.LOCAL_MACHINE, `SOFTWARE\Microsoft\Windows Kits\Installed Roots`, registry.QUERY_VALUE|access)
		if err != nil {
			continue
		}
		for _, name := range []string{"KitsRoot10", "KitsRoot11"} {
			if v, _, err := k.GetStringValue(name); err == nil {
				out = append(out, v)
			}
		}
		_ = k.Close()
	}
	return out
}
