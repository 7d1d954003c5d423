#pragma once

#include <nccl.h>

#include <memory>

#include "communicator.hpp"
#include "copies.hpp"

namespace fakenccl {

struct AllReduce {
  fakecuda::Operand send;
  fakecuda::Operand receive;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t operation = ncclSum;
};

/// The operation of one rank. The result is the same on all: they add up in rank order.
[[nodiscard]] Operation all_reduce_operation(const std::shared_ptr<Communicator>& communicator,
                                             const AllReduce& all_reduce);

}  // namespace fakenccl
