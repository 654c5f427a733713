// What a model does in a run, step by step.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "graph/plain/plain.h"
#include "graph/plan.h"
#include "graph/rows.h"
#include "serving/models/model.h"

namespace tilewright::serving {

// Where the values of a graph, the model's or a body's, lie.
struct Model::Frame {
  const graph::Graph* graph = nullptr;  // while the model is loaded
  std::vector<graph::Place> places;
  std::vector<int64_t> offsets;
  char* base = nullptr;
  // By value: constants where kernels read them, and states.
  std::vector<std::shared_ptr<Block>> constants;
  std::map<size_t, char*> outside;  // whole values of the graph around it
};

// Elements that a loop copies. They are as many as a row has, which `row` counts.
struct Model::Copy {
  char* to = nullptr;
  const char* from = nullptr;
  graph::Size row;
  int64_t bits = 0;
  bool back = false;

  int64_t bytes(const Sizes& sizes) const { return row.at(sizes.data()) * bits / 8; }
};

// Rounds of the steps of a body.
struct Model::Rounds {
  graph::Size most;
  const char* count = nullptr;  // of a run; null: always the most
  int count_bytes = 0;
  char* number = nullptr;       // where the number of a round goes, or null
  const char* go_on = nullptr;  // a byte; null: no round is the last one but the last
  std::vector<Copy> before;     // to the inputs that are carried
  std::vector<Copy> rows_in, rows_out;
  std::vector<Copy> staged, next;  // between rounds: what lies in an input is copied away first
  std::vector<Copy> after;         // of what was carried in the end
  std::vector<std::shared_ptr<Step>> steps;
  Block stage;
};

// A launch that is ready but for its executor and for sizes, a write, a loop, or a plain node.
struct Model::Step {
  // A write has these.
  graph::Rows rows;
  const char *from = nullptr, *first = nullptr;
  char* state = nullptr;
  std::unique_ptr<Rounds> loop;                // of a loop
  std::unique_ptr<graph::PlainRoutine> plain;  // of a plain node
  // A launch has the rest; null: it is none.
  const Served* served = nullptr;
  std::vector<graph::Size> sizes;  // of the dynamic dimensions of its spec
  std::vector<std::vector<int64_t>> shapes;
  std::vector<DLTensor> tensors;
  std::vector<const DLTensor*> given;  // null where the operand is packed
  std::unique_ptr<Weights> weights;
  size_t line = 0;
};

}  // namespace tilewright::serving
