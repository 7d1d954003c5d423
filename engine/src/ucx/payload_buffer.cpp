#include "payload_buffer.hpp"

#include <dlpack/dlpack.h>

#include <string>

#include "sluice/error.hpp"

namespace sluice::ucx {
namespace {

ucs_memory_type_t memory_type_of(const DLDevice& device) {
  switch (device.device_type) {
    case kDLCPU:
      return UCS_MEMORY_TYPE_HOST;
    case kDLCUDA:
      return UCS_MEMORY_TYPE_CUDA;
    case kDLCUDAManaged:
      return UCS_MEMORY_TYPE_CUDA_MANAGED;
    case kDLCUDAHost:
      // UCX has no type for pinned memory: to it, that is memory of the host.
      return UCS_MEMORY_TYPE_HOST;
    default:
      throw Error("a tensor on a device of DLPack type " + std::to_string(device.device_type) +
                  " cannot be sent");
  }
}

bool contiguous(const DLTensor& tensor) {
  if (tensor.strides == nullptr) return true;
  std::int64_t stride = 1;
  for (int i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] == 0) return true;
    if (tensor.shape[i] != 1 && tensor.strides[i] != stride) return false;
    stride *= tensor.shape[i];
  }
  return true;
}

void* data_of(const DLTensor& tensor) { return static_cast<std::byte*>(tensor.data) + tensor.byte_offset; }

}  // namespace

PayloadBuffer describe(const host::Payload& payload, std::vector<TensorShape>& shapes,
                       std::vector<ucp_dt_iov_t>& pieces, ucp_request_param_t& param) {
  shapes.clear();
  pieces.clear();
  std::uint64_t bytes = 0;
  param.memory_type = UCS_MEMORY_TYPE_HOST;
  for (const host::TensorPtr& each : payload) {
    if (!each) throw Error("a payload holds an empty tensor");
    const DLTensor& tensor = each->dl_tensor;
    shapes.push_back(host::shape_of(*each));
    if (!contiguous(tensor)) {
      throw Error("a tensor of shape " + host::to_string(shapes.back()) +
                  " is not contiguous; make it so before it is sent");
    }
    if (tensor.dtype.lanes != 1) throw Error("a tensor of vector elements cannot be sent");
    const ucs_memory_type_t type = memory_type_of(tensor.device);
    if (!pieces.empty() && type != param.memory_type)
      throw Error("the tensors of a message lie on different kinds of device");
    param.memory_type = type;
    pieces.push_back({data_of(tensor), host::bytes_of(shapes.back())});
    bytes += pieces.back().length;
  }
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
  if (pieces.size() == 1) return {pieces[0].buffer, pieces[0].length, bytes};
  param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE;
  param.datatype = ucp_dt_make_iov();
  return {pieces.data(), pieces.size(), bytes};
}

}  // namespace sluice::ucx
