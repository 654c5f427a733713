// What the processor that runs this can do.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace tilewright {

// The vector and matrix extensions of this processor that the operating system has enabled, by the
// names that GCC's -m options use: "sse4.2", "avx2", "fma", "avx512f", "avx512vnni", "amx-tile", ….
// Empty on processors other than x86-64, and without what the knob TILEWRIGHT_CPU_WITHOUT names.
// Asked once a process, which then also asks the kernel for the use of tiles (AMX).
const std::set<std::string>& cpu_features();

// Every name that cpu_features() may hold, in the order of their age.
const std::vector<std::string>& known_cpu_features();

// What the processor calls itself: "AMD EPYC 9B14", or the architecture where it does not tell.
const std::string& cpu_name();
// Vendor, family, model and stepping: "AuthenticAMD-25-17-1". Names a chip where hypervisors blur
// its name; the architecture where there is no cpuid.
const std::string& cpu_signature();

}  // namespace tilewright
