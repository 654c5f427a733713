// Confinement of a process that runs kernels, by libseccomp. Part of tune-cli and not of the serving
// library.
#pragma once

#include <string>

namespace tilewright {

// Confines this process with all its threads, for good. A system call that kernels may not make ends
// the process by SIGSYS, with a line on its standard error that refused_call() reads. Gives empty, or
// why the process is as free as before; no_new_privs is set in either case.
std::string confine_process();

}  // namespace tilewright
