package winservice

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"golang.org/x/sys/windows/svc"
	"golang.org/x/sys/windows/svc/eventlog"
	"golang.org/x/sys/windows/svc/mgr"

	"github.com/symdepot/symdepot/internal/run/daemon"
)

// ErrNotInstalled is the error of all functions for a service that does not exist.
var ErrNotInstalled = errors.New("there is no such service; symdepot service install makes it")

const (
	// waitTime is how long Start and Stop wait.
	waitTime = 2 * time.Minute
	// waitStep is the pause between two questions to the service manager.
	waitStep = 200 * time.Millisecond
)

// Dir is the folder of a service: its configuration, and unless that says otherwise,
// its depot. Its log is in the folder log.
func Dir(name string) (string, error) {
	data, err := windows.KnownFolderPath(windows.FOLDERID_ProgramData, 0)
	return filepath.Join(data, name), err
}

// PrepareDir makes the folder of a service, which administrators and the service may
// use and nobody else. config is the name of the configuration in it. A folder that is
// there already is refused if somebody else may have made it or a file in it, before
// anything of it is read.
func PrepareDir(name, config string) (string, error) {
	if err := checkName(name); err != nil {
		return "", err
	}
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("the name %q is reserved by Windows", name)
	}
	dir, err := Dir(name)
	if err != nil {
		return "", err
	}
	rights, err := windows.SecurityDescriptorFromString(folderRights(name))
	if err != nil {
		return "", err
	}
	at, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return "", err
	}
	attributes := windows.SecurityAttributes{SecurityDescriptor: rights}
	attributes.Length = uint32(unsafe.Sizeof(attributes))
	switch err := windows.CreateDirectory(at, &attributes); { // with its rights from the first moment
	case errors.Is(err, windows.ERROR_ALREADY_EXISTS):
		if err := takeOver(dir, name, config, rights); err != nil {
			return "", err
		}
	case err != nil:
		return "", fmt.Errorf("%s cannot be made: %w", dir, err)
	}
	return dir, os.MkdirAll(filepath.Join(dir, "log"), 0o755)
}

// takeOver sets the rights of a folder that is there already, if nobody else may have made
// what is in it.
func takeOver(dir, name, config string, rights *windows.SECURITY_DESCRIPTOR) error {
	top, err := look(dir)
	if err != nil {
		return err
	}
	if err := top.planted(name); err != nil {
		return refused(dir, err)
	}
	if !top.own(name) {
		list, err := os.ReadDir(dir)
		if err != nil {
			return err
		}
		var names []string
		for _, e := range list {
			names = append(names, e.Name())
		}
		if other := foreign(names, config); other != "" {
			return refused(dir, fmt.Errorf("%s is not the folder of a service of symdepot: it has %s", dir, other))
		}
	}
	if err := each(dir, func(f *found) error {
		if strings.HasPrefix(f.path, filepath.Join(dir, depotName)+`\`) {
			f.links = 1 // a depot may give a file two names for a moment
		}
		return f.planted(name)
	}); err != nil {
		return refused(dir, err)
	}
	if err := setRights(dir, rights); err != nil {
		return fmt.Errorf("the rights of %s: %w", dir, err)
	}
	// What is in it has inherited them now. Rights of its own are those of somebody else.
	if err := each(dir, func(f *found) error { return f.open(name) }); err != nil {
		return refused(dir, err)
	}
	return nil
}

// refused is the error for a folder that a service does not use.
func refused(dir string, why error) error {
	return fmt.Errorf("%w. Whoever may write in the folder of a service decides what the service runs. "+
		"Look at what is in %s, then move it away; or keep it with "+
		`takeown /a /r /f "%s" and icacls "%s" /reset /t, and try again`, why, dir, dir, dir)
}

// setRights sets the owner and the rights of a folder, and what is in it inherits them.
func setRights(dir string, rights *windows.SECURITY_DESCRIPTOR) error {
	owner, _, err := rights.Owner()
	if err != nil {
		return err
	}
	list, _, err := rights.DACL()
	if err != nil {
		return err
	}
	return windows.SetNamedSecurityInfo(dir, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION|windows.PROTECTED_DACL_SECURITY_INFORMATION, owner, nil, list, nil)
}

// each calls judge with a folder and all that is in it, up to the first error.
func each(dir string, judge func(*found) error) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		f, err := look(path)
		if err != nil {
			return err
		}
		return judge(&f)
	})
}

// look describes a file or folder, and does not follow where it leads.
func look(path string) (found, error) {
	f := found{path: path}
	name, err := windows.UTF16PtrFromString(path)
	if err != nil {
		return f, err
	}
	h, err := windows.CreateFile(name, windows.READ_CONTROL|windows.FILE_READ_ATTRIBUTES,
		windows.FILE_SHARE_READ|windows.FILE_SHARE_WRITE|windows.FILE_SHARE_DELETE,
		nil, windows.OPEN_EXISTING, windows.FILE_FLAG_BACKUP_SEMANTICS|windows.FILE_FLAG_OPEN_REPARSE_POINT, 0)
	if err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	defer func() { _ = windows.CloseHandle(h) }()
	var info windows.ByHandleFileInformation
	if err := windows.GetFileInformationByHandle(h, &info); err != nil {
		return f, fmt.Errorf("%s: %w", path, err)
	}
	rights, err := windows.GetSecurityInfo(h, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return f, fmt.Errorf("the rights of %s: %w", path, err)
	}
	f.leads = info.FileAttributes&windows.FILE_ATTRIBUTE_REPARSE_POINT != 0
	f.dir = info.FileAttributes&windows.FILE_ATTRIBUTE_DIRECTORY != 0
	f.links, f.sddl = info.NumberOfLinks, rights.String()
	return f, nil
}

// Install makes a service that runs this program with arguments when the machine
// starts, under an account of its own without further rights.
func Install(name string, args []string) error {
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("the service manager: %w", err)
	}
	defer func() { _ = m.Disconnect() }()
	s, err := m.CreateService(name, exe, mgr.Config{
		DisplayName: "Symbol server (" + name + ")", Description: "Serves debug symbols to debuggers over HTTP.",
		StartType: mgr.StartAutomatic, DelayedAutoStart: true, ServiceStartName: `NT SERVICE\` + name,
	}, args...)
	if err != nil {
		return fmt.Errorf("the service %s cannot be made: %w", name, err)
	}
	defer s.Close()
	again := []mgr.RecoveryAction{{Type: mgr.ServiceRestart, Delay: 2 * time.Second}, {Type: mgr.ServiceRestart, Delay: time.Minute}}
	for _, err := range []error{
		s.SetRecoveryActions(again, uint32((24*time.Hour)/time.Second)), s.SetRecoveryActionsOnNonCrashFailures(true),
	} {
		if err == nil || errors.Is(err, windows.ERROR_INVALID_LEVEL) { // Wine's service manager knows none
			continue
		}
		return errors.Join(fmt.Errorf("what happens after a failure: %w", err), s.Delete())
	}
	if err := eventlog.InstallAsEventCreate(name, eventlog.Error|eventlog.Warning|eventlog.Info); err != nil {
		return errors.Join(fmt.Errorf("the event log: %w", err), s.Delete())
	}
	return nil
}

// with calls f with a service.
func with(name string, f func(*mgr.Service) error) error {
	m, err := mgr.Connect()
	if err != nil {
		return fmt.Errorf("the service manager: %w", err)
	}
	defer func() { _ = m.Disconnect() }()
	s, err := m.OpenService(name)
	if errors.Is(err, windows.ERROR_SERVICE_DOES_NOT_EXIST) {
		return fmt.Errorf("%s: %w", name, ErrNotInstalled)
	}
	if err != nil {
		return fmt.Errorf("the service %s: %w", name, err)
	}
	defer s.Close()
	return f(s)
}

// Start starts a service and waits until it serves.
func Start(ctx context.Context, name string) error {
	return with(name, func(s *mgr.Service) error {
		if err := s.Start(); err != nil && !errors.Is(err, windows.ERROR_SERVICE_ALREADY_RUNNING) {
			return err
		}
		return await(ctx, s, svc.Running)
	})
}

// Stop stops a service and waits for its end.
func Stop(ctx context.Context, name string) error { return with(name, stopper(ctx)) }

func stopper(ctx context.Context) func(*mgr.Service) error {
	return func(s *mgr.Service) error {
		if _, err := s.Control(svc.Stop); errors.Is(err, windows.ERROR_SERVICE_NOT_ACTIVE) {
			return nil
		} else if err != nil {
			return err
		}
		return await(ctx, s, svc.Stopped)
	}
}

// await waits until a service has a state.
func await(ctx context.Context, s *mgr.Service, want svc.State) error {
	ctx, cancel := context.WithTimeout(ctx, waitTime)
	defer cancel()
	tick := time.NewTicker(waitStep)
	defer tick.Stop()
	for {
		now, err := s.Query()
		switch {
		case err != nil:
			return err
		case now.State == want:
			return nil
		case now.State == svc.Stopped:
			return fmt.Errorf("the service has stopped with the exit code %d; the event log (Application) and its log say why",
				max(now.Win32ExitCode, now.ServiceSpecificExitCode))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("the service is %s: %w", stateText(now.State), ctx.Err())
		case <-tick.C:
		}
	}
}

// Remove stops a service and removes it. Its folder stays.
func Remove(ctx context.Context, name string) error {
	err := with(name, func(s *mgr.Service) error { return errors.Join(stopper(ctx)(s), s.Delete()) })
	if errors.Is(err, ErrNotInstalled) {
		return err
	}
	return errors.Join(err, eventlog.Remove(name))
}

// Status returns the state of a service as a word, and whether it serves.
func Status(name string) (text string, running bool, err error) {
	err = with(name, func(s *mgr.Service) error {
		now, err := s.Query()
		text, running = stateText(now.State), now.State == svc.Running
		return err
	})
	return text, running, err
}

func stateText(s svc.State) string {
	switch s {
	case svc.Stopped:
		return "stopped"
	case svc.StartPending:
		return "starting"
	case svc.StopPending:
		return "stopping"
	case svc.Running:
		return "running"
	}
	return fmt.Sprintf("in state %d", s)
}

// Run is the process of a service. It calls serve, and ends its context when the
// service shall stop. The error of serve and what it logs as warnings and errors are
// in the event log. It returns an error if no service manager has started the process.
func Run(name string, serve func(context.Context, *Logs) error) error {
	events, err := eventlog.Open(name)
	if err != nil {
		return err
	}
	defer events.Close()
	h := &handler{name: name, serve: serve, tell: func(kind severity, text string) {
		switch kind {
		case failure:
			_ = events.Error(3, text)
		case warning:
			_ = events.Warning(2, text)
		default:
			_ = events.Info(1, text)
		}
	}}
	err = svc.Run(name, h)
	if errors.Is(err, windows.ERROR_FAILED_SERVICE_CONTROLLER_CONNECT) {
		return errors.New("only the service manager of Windows runs this command; start the service with symdepot service start")
	}
	return err
}

// handler is the process as the service manager sees it.
type handler struct {
	name  string
	serve func(context.Context, *Logs) error
	tell  func(severity, string)
}

// openLog opens the log, which also gets the text of a crash.
func (h *handler) openLog() (*rotated, error) {
	dir, err := Dir(h.name)
	if err != nil {
		return nil, err
	}
	log, err := openRotated(filepath.Join(dir, "log", "symdepot.log"), maxLog)
	if err != nil {
		return nil, err
	}
	log.withCrashes(func(err error) { h.tell(warning, "a crash will not be in the log: "+err.Error()) })
	return log, nil
}

// Execute implements svc.Handler.
func (h *handler) Execute(_ []string, requests <-chan svc.ChangeRequest, changes chan<- svc.Status) (bool, uint32) {
	const accepts = svc.AcceptStop | svc.AcceptShutdown
	now := svc.Status{State: svc.StartPending, WaitHint: uint32(waitTime / time.Millisecond)}
	changes <- now
	log, err := h.openLog()
	if err != nil {
		h.tell(failure, "the log cannot be written: "+err.Error())
		return true, 2
	}
	defer log.Close()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	ready, done := make(chan struct{}, 1), make(chan error, 1)
	daemon.OnNotify(func(state string) {
		if state == "READY=1" {
			ready <- struct{}{}
		}
	})
	go func() { done <- h.serve(ctx, &Logs{file: log, tell: h.tell}) }()
	for {
		select {
		case <-ready:
			now = svc.Status{State: svc.Running, Accepts: accepts}
			changes <- now
			h.tell(info, "the server serves")
		case r := <-requests:
			switch r.Cmd {
			case svc.Interrogate:
				changes <- now
			case svc.Stop, svc.Shutdown:
				now = svc.Status{State: svc.StopPending, WaitHint: uint32(time.Minute / time.Millisecond)}
				changes <- now
				cancel()
			}
		case err := <-done:
			changes <- svc.Status{State: svc.StopPending}
			if err != nil && !errors.Is(err, context.Canceled) {
				h.tell(failure, "the server has stopped: "+err.Error())
				return true, 1
			}
			h.tell(info, "the server has stopped")
			return false, 0
		}
	}
}
