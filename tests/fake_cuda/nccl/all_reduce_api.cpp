#include <nccl.h>

#include "all_reduce.hpp"
#include "nccl_call.hpp"
#include "reduction.hpp"

namespace fakenccl {
namespace {

ncclResult_t find(const char* what, const void* address, std::size_t bytes, fakecuda::Operand& operand) {
  if (fakecuda::find_operand(what, address, bytes, operand) != cudaSuccess) {
    return fail(ncclInvalidArgument, std::string(what) + " cannot be used");
  }
  if (operand.location) return ncclSuccess;
  return misuse(ncclInvalidArgument, std::string(what) + " is memory that the device cannot reach");
}

ncclResult_t all_reduce(const std::shared_ptr<Communicator>& communicator, const void* send, void* receive,
                        std::size_t count, ncclDataType_t type, ncclRedOp_t operation, cudaStream_t stream) {
  if (const ncclResult_t refused = communicator->ready()) return refused;
  if (bytes_of(type) == 0) return fail(ncclInvalidArgument, "ncclAllReduce: no such type");
  if (!reduces(type, operation)) {
    return misuse(ncclInvalidArgument, "ncclAllReduce of a type, or with an operation, that the fake lacks");
  }
  AllReduce wanted{{}, {}, count, type, operation};
  const std::size_t bytes = count * bytes_of(type);
  if (bytes == 0) return ncclSuccess;
  if (const auto refused = find("the input of an all-reduce", send, bytes, wanted.send)) return refused;
  if (const auto refused = find("the result of an all-reduce", receive, bytes, wanted.receive)) {
    return refused;
  }
  const auto step = [communicator, stream, what = all_reduce_operation(communicator, wanted)] {
    return std::optional(communicator->launch(stream, what));
  };
  return group::submit(communicator, step, false);
}

}  // namespace
}  // namespace fakenccl

ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t operation, ncclComm_t communicator, cudaStream_t stream) {
  return fakenccl::call("ncclAllReduce", communicator, [&](const auto& found) {
    return fakenccl::all_reduce(found, send, receive, count, type, operation, stream);
  });
}
