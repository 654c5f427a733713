// oneDNN's threads, whichever library gives them.
#pragma once

#include <functional>
#include <string>

namespace tilewright::peers {

// "OpenMP", "TBB", …: for the version that the table prints.
std::string threading_name();
// Runs `make` so that what oneDNN plans inside is planned for `threads` threads.
void with_threads(int threads, const std::function<void()>& make);
// Holds the following executions to `threads` threads. Cheap when nothing changes.
void use_threads(int threads);
// Ends the workers' spinning.
void stop_spinning();

}  // namespace tilewright::peers
