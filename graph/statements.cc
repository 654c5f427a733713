#include "graph/statements.h"

#include <algorithm>

#include "base/error.h"

namespace tilewright::graph {

std::vector<ops::Statement> statements_of(const Workload& workload) {
  std::string lines = tilewright::to_string(workload);
  std::replace(lines.begin(), lines.end(), '\n', ';');
  std::vector<ops::Statement> statements;
  try {
    statements = ops::parse_statements(lines);
  } catch (const Error&) {
    return {};
  }
  if (statements.size() != workload.stages.size()) return {};
  return statements;
}

}  // namespace tilewright::graph
