#pragma once

#include <c10/util/intrusive_ptr.h>

#include <torch/csrc/distributed/c10d/Store.hpp>

namespace sluice::gpt {

/// What `TcpStoreBootstrap` hands to the process groups, out of sight of its header.
struct StoreHandle {
  c10::intrusive_ptr<c10d::Store> store;
};

}  // namespace sluice::gpt
