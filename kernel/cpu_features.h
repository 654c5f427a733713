// Features of the processor that runs this process.
#pragma once

#include <set>
#include <string>
#include <vector>

namespace tilewright {

// The vector and matrix extensions of this processor that the operating system has enabled. The
// names are those of GCC's -m options: "sse4.2", "avx2", "fma", "avx512f", "avx512vnni",
// "amx-tile", …. Empty on processors other than x86-64. The knob TILEWRIGHT_CPU_WITHOUT removes
// names. The processor is asked once per process, which then also asks the kernel for the use of
// tiles (AMX).
const std::set<std::string>& cpu_features();

// Every name that cpu_features() may return, oldest first.
const std::vector<std::string>& known_cpu_features();

// The processor's own name: "AMD EPYC 9B14"; the architecture where it gives none.
const std::string& cpu_name();
// Vendor, family, model and stepping: "AuthenticAMD-25-17-1". Identifies a chip where hypervisors
// blur its name. The architecture where there is no cpuid.
const std::string& cpu_signature();

}  // namespace tilewright
