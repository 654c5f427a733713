// The rights that remain to a process that runs kernels.
//
// Kernels are machine code, perhaps somebody else's. A confined process computes, waits and reads
// files. It starts no process, opens no file for writing, and reaches no network and no other
// process. docs/sandbox.md lists what remains.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

// Why confine_process() cannot work here: the knob TILEWRIGHT_SANDBOX is off, the system has no
// seccomp filters, or this program is built with a sanitizer or gcov. Empty where it can.
std::string confinement_problem();
// The second of these, whatever the others: "this system has no seccomp filters: …", or empty.
std::string missing_seccomp();

// Confines this process with all its threads, for good. A system call that kernels may not make ends
// the process by SIGSYS, with a line on its standard error that refused_call() reads. Gives empty, or
// why the process is as free as before; no_new_privs is set in either case. Part of tune-cli and not
// of the serving library: tw_sandbox.
std::string confine_process();

// How that line begins.
inline constexpr std::string_view kRefusedCall = "tilewright: refused system call ";
// The name of the last call that the text tells of, such as "execve"; nothing where it tells of none.
std::optional<std::string> refused_call(std::string_view standard_error);

}  // namespace tilewright
