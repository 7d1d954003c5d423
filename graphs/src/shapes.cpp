#include "shapes.hpp"

#include <cstddef>

namespace sluice::graphs {
namespace {

using Edges = std::vector<std::vector<cuda::SlotTensor>>;

/// Calls `visit` with each tensor whose shape selects, until it says false.
template <typename Visit>
bool visit_selecting(Pass pass, const cuda::SlotBuffers& slot, const Visit& visit) {
  const auto all = [&visit](const Edges& edges) {
    for (const auto& tensors : edges) {
      for (const cuda::SlotTensor& tensor : tensors) {
        if (!visit(tensor)) return false;
      }
    }
    return true;
  };
  if (pass == Pass::Forward) return all(slot.inputs.empty() ? slot.outputs : slot.inputs);
  return all(slot.inputs) && all(slot.output_grads);
}

template <typename Slot>
auto* written_edges(Pass pass, Slot& slot) {
  switch (pass) {
    case Pass::Forward:
      return &slot.outputs;
    case Pass::Backward:
      return &slot.input_grads;
    case Pass::WeightGrad:
      break;
  }
  return static_cast<decltype(&slot.outputs)>(nullptr);
}

}  // namespace

std::vector<TensorShape> selecting_shapes(Pass pass, const cuda::SlotBuffers& slot) {
  std::vector<TensorShape> shapes;
  visit_selecting(pass, slot, [&shapes](const cuda::SlotTensor& tensor) {
    shapes.push_back(tensor.shape);
    return true;
  });
  return shapes;
}

bool selected(const std::vector<TensorShape>& shapes, Pass pass, const cuda::SlotBuffers& slot) {
  std::size_t next = 0;
  return visit_selecting(pass, slot, [&](const cuda::SlotTensor& tensor) {
    return next < shapes.size() && tensor.shape == shapes[next++];
  });
}

std::vector<TensorShape> written_shapes(Pass pass, const cuda::SlotBuffers& slot) {
  std::vector<TensorShape> shapes;
  if (const Edges* edges = written_edges(pass, slot)) {
    for (const auto& tensors : *edges) {
      for (const cuda::SlotTensor& tensor : tensors) shapes.push_back(tensor.shape);
    }
  }
  return shapes;
}

void set_written_shapes(const std::vector<TensorShape>& shapes, Pass pass, cuda::SlotBuffers& slot) {
  Edges* const edges = written_edges(pass, slot);
  if (edges == nullptr) return;
  std::size_t next = 0;
  for (auto& tensors : *edges) {
    for (cuda::SlotTensor& tensor : tensors) tensor.shape = shapes[next++];
  }
}

}  // namespace sluice::graphs
