package crash

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// deniedHere are calls that this processor has beside those of all.
var deniedHere []uintptr
