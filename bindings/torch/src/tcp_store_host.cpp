#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "sluice/error.hpp"
#include "sluice/torch/tcp_store_bootstrap.hpp"
#include "store_handle.hpp"
#include "store_socket.hpp"

namespace sluice::gpt {

TcpStoreHost::TcpStoreHost() : store_(std::make_unique<StoreHandle>()) {
  try {
    StoreSocket socket = StoreSocket::on_loopback();
    port_ = socket.port();
    c10d::TCPStoreOptions options;
    options.port = port_;
    options.isServer = true;
    options.waitWorkers = false;
    options.masterListenFd = socket.release();
    store_->store = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  } catch (const std::exception& error) {
    throw Error(std::string("cannot serve a store on the loopback interface: ") + error.what());
  }
}

TcpStoreHost::~TcpStoreHost() = default;

std::uint16_t TcpStoreHost::port() const noexcept { return port_; }

}  // namespace sluice::gpt
