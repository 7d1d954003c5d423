#include "sluice/process/control_plane.hpp"

#include <exception>
#include <random>
#include <utility>

#include "control_hub.hpp"
#include "control_member.hpp"
#include "sluice/error.hpp"

namespace sluice::process {
namespace {

/// Where the hub is to be found, as it tells the others in the bootstrap.
struct Meeting {
  std::uint16_t port = 0;
  std::uint64_t token = 0;
};

std::uint64_t draw_token() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

Bytes bytes_of(const Meeting& meeting) { return encode(Hello{meeting.token, meeting.port}); }

Meeting meeting_of(const Bytes& bytes) {
  FrameReader reader;
  reader.append(bytes);
  try {
    if (const std::optional<Frame> frame = reader.next()) {
      const Hello hello = decode_hello(*frame);
      return {static_cast<std::uint16_t>(hello.rank), hello.token};
    }
  } catch (const ProtocolError&) {
    throw Error("rank 0 did not say where it listens");
  }
  throw Error("rank 0 did not say where it listens");
}

std::unique_ptr<ControlThread> make_thread(Bootstrap& bootstrap, ControlOptions options) {
  const std::uint32_t ranks = bootstrap.ranks();
  if (bootstrap.rank() != 0) {
    const Meeting meeting = meeting_of(bootstrap.all_gather({}).at(0));
    return std::make_unique<ControlMember>(bootstrap.rank(), ranks, std::move(options), bootstrap.host(),
                                           meeting.port, meeting.token);
  }
  Listener listener = listen_for(bootstrap.host(), static_cast<int>(ranks) + 64);
  const Meeting meeting{listener.port, draw_token()};
  bootstrap.all_gather(bytes_of(meeting));
  return std::make_unique<ControlHub>(ranks, std::move(options), std::move(listener), meeting.token);
}

}  // namespace

class ControlPlane::Impl {
 public:
  Impl(Bootstrap& bootstrap, ControlOptions options)
      : exceptions_(std::uncaught_exceptions()), thread_(make_thread(bootstrap, std::move(options))) {
    thread_->start();
  }

  ~Impl() {
    if (std::uncaught_exceptions() > exceptions_)
      thread_->fail(Failure::Kind::Failed, "was ended by an exception");
  }
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  [[nodiscard]] ControlThread& thread() noexcept { return *thread_; }

 private:
  int exceptions_;
  std::unique_ptr<ControlThread> thread_;
};

ControlPlane::ControlPlane(Bootstrap& bootstrap, ControlOptions options)
    : impl_(std::make_unique<Impl>(bootstrap, std::move(options))) {}

ControlPlane::~ControlPlane() = default;

std::uint32_t ControlPlane::rank() const noexcept { return impl_->thread().rank(); }

std::uint32_t ControlPlane::ranks() const noexcept { return impl_->thread().ranks(); }

std::vector<std::vector<std::byte>> ControlPlane::all_gather(std::span<const std::byte> own) {
  return impl_->thread().all_gather(own);
}

bool ControlPlane::failed() const noexcept { return impl_->thread().failed(); }

std::optional<Failure> ControlPlane::failure() const { return impl_->thread().failure(); }

void ControlPlane::on_failure(std::function<void(const Failure&)> hook) {
  impl_->thread().on_failure(std::move(hook));
}

void ControlPlane::fail(Failure::Kind kind, const std::string& cause) { impl_->thread().fail(kind, cause); }

void ControlPlane::suspect(const std::string& cause) { impl_->thread().suspect(cause); }

void ControlPlane::progressed(Time at) noexcept { impl_->thread().progressed(at); }

void ControlPlane::working(bool inside) noexcept { impl_->thread().working(inside); }

void ControlPlane::report(const std::string& json) { impl_->thread().report(json); }

std::vector<std::string> ControlPlane::reports(Duration wait) { return impl_->thread().reports(wait); }

Duration ControlPlane::clock_offset() const noexcept { return impl_->thread().clock_offset(); }

}  // namespace sluice::process
