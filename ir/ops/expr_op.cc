#include "ir/ops/builders.h"

namespace tilewright::ops {

std::vector<Operator> expr_operators() { return {}; }

}  // namespace tilewright::ops
