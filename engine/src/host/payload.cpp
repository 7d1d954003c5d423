#include "sluice/host/payload.hpp"

#include <dlpack/dlpack.h>

#include <string>

#include "sluice/error.hpp"

namespace sluice::host {

void DLManagedTensorDeleter::operator()(DLManagedTensor* tensor) const noexcept {
  if (tensor->deleter != nullptr) tensor->deleter(tensor);
}

TensorShape shape_of(const DLManagedTensor& tensor) {
  const DLTensor& data = tensor.dl_tensor;
  if (data.ndim < 0 || static_cast<std::size_t>(data.ndim) > TensorShape::kMaxRank) {
    throw Error("a tensor of " + std::to_string(data.ndim) + " dimensions cannot be sent, at most " +
                std::to_string(TensorShape::kMaxRank) + " can");
  }
  TensorShape shape;
  shape.dtype_code = static_cast<std::uint8_t>(data.dtype.code);
  shape.dtype_bits = data.dtype.bits;
  shape.rank = static_cast<std::uint8_t>(data.ndim);
  for (int i = 0; i < data.ndim; ++i) shape.extent[i] = data.shape[i];
  return shape;
}

std::uint64_t bytes_of(const TensorShape& shape) noexcept {
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < shape.rank; ++i) elements *= static_cast<std::uint64_t>(shape.extent[i]);
  return elements * ((shape.dtype_bits + 7U) / 8U);
}

bool is_absent(const TensorShape& gradient) noexcept {
  return gradient.dtype_code == kDLUInt && gradient.dtype_bits == 8 && gradient.rank == 1 &&
         gradient.extent[0] == 0;
}

std::string to_string(const TensorShape& shape) {
  constexpr const char* kinds[] = {"int", "uint", "float", "opaque", "bfloat", "complex", "bool"};
  std::string text = shape.dtype_code < std::size(kinds) ? kinds[shape.dtype_code] : "type";
  text += std::to_string(shape.dtype_bits) + "[";
  for (std::size_t i = 0; i < shape.rank; ++i) text += (i > 0 ? ", " : "") + std::to_string(shape.extent[i]);
  return text + "]";
}

}  // namespace sluice::host
