// Ctrl-C: the first one asks to stop, the second one stops.
#pragma once

#include <atomic>

namespace tilewright::cli {

// Installs the handler of SIGINT and SIGTERM; the flag turns true at the first signal, the second
// ends the process at once with exit code 130.
const std::atomic<bool>& catch_interrupts();

}  // namespace tilewright::cli
