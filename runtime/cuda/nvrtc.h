// NVRTC, NVIDIA's compiler as a library, opened when first asked for: CUDA text to machine code for
// any of its targets, with or without a GPU.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tilewright::cuda {

/// Why there is no NVRTC in this process; empty when there is. It is looked for once, in the folder
/// that the knob TILEWRIGHT_CUDA names or else where loaders and installers put it.
const std::string& nvrtc_problem();

/// 13; 0 where there is none.
int nvrtc_major();

/// "NVRTC 13.0". Throws ToolchainError when there is none.
std::string nvrtc_identity();

/// Whether it compiles for this architecture: "sm_80", "sm_90a". False when there is none.
bool nvrtc_accepts(std::string_view arch);

/// The kernels of `text` behind the device prelude, as a cubin. Messages call the text `name`.cu and
/// count its lines from 1. Safe from many threads at once.
/// Throws ToolchainError when there is no NVRTC, and CompileError when it refuses the text or the
/// architecture, with what it said. `log` receives what it says of a text that it accepts.
std::string compile_to_cubin(std::string_view text, std::string_view name, std::string_view arch,
                             std::string* log = nullptr);

/// The lines of such a log that tell of slower code than the text asks for (C7500 to C7599): wgmma
/// that wait for each other, a setmaxnreg that was ignored.
std::vector<std::string> performance_warnings(const std::string& log);

/// The same as PTX, the assembly that the driver or ptxas turns into machine code.
std::string compile_to_ptx(std::string_view text, std::string_view name, std::string_view arch);

}  // namespace tilewright::cuda
