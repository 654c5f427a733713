// Products of f32 among the stages of a node, whose factors may have a narrower type.
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "graph/statements.h"

namespace tilewright::graph {

// Outputs of nodes that stay as they are.
using Kept = std::set<std::string>;

// The products of a graph that a pass changed, and those that it left.
struct Changed {
  std::vector<std::string> outputs;  // of the nodes that it changed
  int others = 0;  // products with a constant weight that it cannot say, or that gain nothing
};

// An element of an input that a product takes as it is, perhaps through a stage that pads.
struct Factor {
  size_t input = 0;
  std::optional<size_t> padding;  // a stage
};

// A stage that sums products of two elements.
struct Product {
  size_t stage = 0;
  Factor a, b;
};

// The products of f32 factors that are worth a narrower type: sums of so many terms, where elements of both
// factors are read several times, or those of a constant once.
std::vector<Product> products_of(const Graph& graph, const Text& text, int64_t least_terms);

// The read of a stage that copies: an element, or zero outside of a window. Null for any other stage.
const ops::Syntax* copied_by(const Stage& stage);

// Makes the stage, or the one that pads for it, read `input`, which stands for the factor, under another name.
// Inputs keep their places.
void read_instead(Text* text, size_t product, const Factor& factor, TextInput input);
// `wanted`, or with a number behind it where the set has that name. Adds it to the set.
std::string fresh_name(const std::string& wanted, std::set<std::string>* names);
// Leaves out inputs that no stage reads.
void drop_unread(Text* text);

}  // namespace tilewright::graph
