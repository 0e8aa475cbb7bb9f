# Run by gdb: runs the program and writes a core file with the files of /proc at
# chosen places. STEPCORE_OUT is the prefix of the names, STEPCORE_NUMBER the most
# dumps, STEPCORE_ADDRESSES a file of addresses as the linker assigned them, in hex,
# each the first byte of an instruction, STEPCORE_BASE "exe" or the file name of a
# shared library that holds them. A crash is dumped too.
import os, shutil
import gdb

out, number = os.environ["STEPCORE_OUT"], int(os.environ["STEPCORE_NUMBER"])
places = [int(w, 16) for w in open(os.environ["STEPCORE_ADDRESSES"]).read().split()]
module = os.environ["STEPCORE_BASE"]
gdb.execute("set pagination off")
gdb.execute("set confirm off")
gdb.execute("set breakpoint pending on")
gdb.execute("set auto-solib-add off")
gdb.execute("set startup-with-shell off")
gdb.execute("set disable-randomization on")
gdb.execute("handle SIGUSR1 SIGURG SIGPIPE nostop noprint pass")
gdb.execute("handle SIGSEGV SIGABRT SIGFPE SIGBUS stop print pass")
gdb.execute("starti")

def base():
    pid = gdb.selected_inferior().pid
    exe = os.readlink("/proc/%d/exe" % pid)
    for line in open("/proc/%d/maps" % pid):
        w = line.split()
        if len(w) > 5 and (w[5] == exe if module == "exe" else os.path.basename(w[5]) == module):
            return int(w[0].split("-")[0], 16)
    return None

if module != "exe":  # until the library is mapped
    gdb.execute("set stop-on-solib-events 1")
    while base() is None:
        gdb.execute("continue")
    gdb.execute("set stop-on-solib-events 0")
at = base()
first = int(os.environ.get("STEPCORE_LINKED", "0"), 16)
for a in places:
    gdb.execute("tbreak *%#x" % (at - first + a), to_string=True)
done = 0
while done < number and gdb.selected_inferior().pid:
    try:
        gdb.execute("continue", to_string=True)
    except gdb.error as e:
        print(e)
        break
    if not gdb.selected_inferior().pid:
        break
    done += 1
    name = "%s-%02d" % (out, done)
    gdb.execute("gcore " + name + ".core", to_string=True)
    pid = gdb.selected_inferior().pid
    os.makedirs(name + ".proc", exist_ok=True)
    for f in ("auxv", "cmdline", "environ", "maps", "status"):
        open(name + ".proc/" + f, "wb").write(open("/proc/%d/%s" % (pid, f), "rb").read())
    try:
        sig = gdb.parse_and_eval("$_siginfo.si_signo")
        if int(sig) in (11, 6, 8, 7):
            break
    except gdb.error:
        pass
if gdb.selected_inferior().pid:
    gdb.execute("kill")
print("%d cores" % done)
