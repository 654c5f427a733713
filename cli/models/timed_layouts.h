// The layouts of a program by the times of kernels.
#pragma once

#include <cstdint>

#include "cli/models/model_program.h"
#include "cli/models/tuning.h"
#include "database/store.h"

namespace tilewright::cli {

// How sums count whose kernels the database lacks: by estimates, or as what is not to be chosen.
enum class Lacking : uint8_t { Estimated, Avoided };

// The program's graph with the layouts that the kernels of the database make fastest (graph/layouts/choice.h).
// Programs with ranges of sizes, those of GPUs and those without fusion keep their graph, as do all with a
// database whose kernels are not trusted.
graph::Graph with_timed_layouts(const ProgramArguments& a, const ModelProgram& program,
                                const database::Store& store, Lacking lacking);

// Measures the first answers that the choice lacks, in at most a share of the arguments' seconds; none with 0 trials.
// Returns whether it was interrupted.
bool time_layouts(const ProgramArguments& a, const ModelProgram& program,
                  const TuningArguments& arguments, database::Store& store);

}  // namespace tilewright::cli
