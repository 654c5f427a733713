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

// Why confine_process() (sandbox/seccomp.h) cannot work here: the knob TILEWRIGHT_SANDBOX is off, the system has no
// seccomp filters, or this program is built with a sanitizer or gcov. Empty where it can.
std::string confinement_problem();
// The second of these, whatever the others: "this system has no seccomp filters: …", or empty.
std::string missing_seccomp();

// How the line begins that a confined process writes before SIGSYS ends it.
inline constexpr std::string_view kRefusedCall = "tilewright: refused system call ";
// The name of the last call that the text tells of, such as "execve"; nothing where it tells of none.
std::optional<std::string> refused_call(std::string_view standard_error);

}  // namespace tilewright
