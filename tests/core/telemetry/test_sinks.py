from swarm_node.telemetry.events import Notice, Telemetry


class Recorder:
    def __init__(self, broken=False):
        self.texts, self.closed, self.broken = [], False, broken

    def take(self, event):
        self.texts.append(event.text)
        if self.broken:
            raise BrokenPipeError

    def close(self):
        self.closed = True
        if self.broken:
            raise BrokenPipeError


def test_every_sink_takes_every_event_and_is_closed():
    sinks = [Recorder(), Recorder()]
    with Telemetry(sinks) as telemetry:
        telemetry.emit(Notice("a"))
        telemetry.emit(Notice("b"))
    assert [sink.texts for sink in sinks] == [["a", "b"]] * 2 and all(sink.closed for sink in sinks)


def test_a_sink_whose_output_is_gone_is_dropped_and_the_others_go_on():
    broken, sound = Recorder(broken=True), Recorder()
    with Telemetry([broken, sound]) as telemetry:
        telemetry.emit(Notice("a"))
        telemetry.emit(Notice("b"))
    assert broken.texts == ["a"] and sound.texts == ["a", "b"]


def test_a_sink_that_can_not_be_closed_keeps_no_other_open():
    broken, sound = Recorder(broken=True), Recorder()
    Telemetry([sound, broken]).close()
    assert sound.closed
