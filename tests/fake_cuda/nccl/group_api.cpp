#include <nccl.h>

#include "nccl_call.hpp"

using fakenccl::call;

ncclResult_t ncclGroupStart() {
  return call("ncclGroupStart", [] {
    fakenccl::group::begin();
    return ncclSuccess;
  });
}

ncclResult_t ncclGroupEnd() {
  return call("ncclGroupEnd", [] { return fakenccl::group::end(); });
}
