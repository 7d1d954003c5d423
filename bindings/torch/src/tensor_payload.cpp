#include "sluice/torch/tensor_payload.hpp"

#include <ATen/DLConvertor.h>

#include <string>
#include <utility>

#include "sluice/error.hpp"

namespace sluice::gpt {
namespace {

void require_one_edge(std::span<host::Payload> edges, const char* what) {
  if (edges.size() != 1) {
    throw Error("expected one edge for the " + std::string(what) + ", got " + std::to_string(edges.size()));
  }
}

}  // namespace

host::TensorPtr to_message(const at::Tensor& tensor) {
  return host::TensorPtr(at::toDLPack(tensor.detach().contiguous()));
}

at::Tensor from_message(host::TensorPtr message) { return at::fromDLPack(message.release()); }

at::Tensor take_single(std::span<host::Payload> edges, const char* what) {
  require_one_edge(edges, what);
  host::Payload& payload = edges.front();
  if (payload.size() != 1 || !payload.front()) {
    throw Error("expected one tensor as " + std::string(what) + ", got " + std::to_string(payload.size()));
  }
  at::Tensor tensor = from_message(std::move(payload.front()));
  payload.clear();
  return tensor;
}

void put_single(const at::Tensor& tensor, std::span<host::Payload> edges, const char* what) {
  require_one_edge(edges, what);
  edges.front().clear();
  edges.front().push_back(to_message(tensor));
}

}  // namespace sluice::gpt
