#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sluice/host/payload.hpp"
#include "sluice/transport.hpp"
#include "ucp_handles.hpp"

namespace sluice::ucx {

/// What UCX is told of the memory of a message's tensors.
struct PayloadBuffer {
  void* data = nullptr;
  std::size_t count = 0;
  std::uint64_t bytes = 0;
};

/// @param shapes gets the tensors' shapes
/// @param pieces gets the tensors' memory, to which the result may refer
/// @param param gets the memory type and, for several tensors, the data type
/// @throws Error if a tensor is not contiguous or lies where UCX cannot take it from
[[nodiscard]] PayloadBuffer describe(const host::Payload& payload, std::vector<TensorShape>& shapes,
                                     std::vector<ucp_dt_iov_t>& pieces, ucp_request_param_t& param);

}  // namespace sluice::ucx
