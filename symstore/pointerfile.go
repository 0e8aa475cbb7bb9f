package symstore

// ParsePointer reads the content of a file.ptr, as any tool or server writes it.
func ParsePointer(data []byte) Pointer { return parsePointer(data) }
