import io.opentelemetry.api.GlobalOpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import java.util.logging.Logger;

/** Sends 200 spans, 100 log records and 10 metric points with the SDK of the agent. */
public class Counted {
    public static void send() {
        var tracer = GlobalOpenTelemetry.getTracer("counted");
        for (int number = 1; number <= 200; number++) {
            var span = tracer.spanBuilder("counted").startSpan();
            try (var scope = span.makeCurrent()) {
                if (number <= 100) Logger.getLogger("counted").info("counted " + number);
            } finally {
                span.end();
            }
        }
        var orders = GlobalOpenTelemetry.getMeter("counted").counterBuilder("counted.orders").build();
        for (int number = 1; number <= 10; number++) {
            orders.add(number, Attributes.of(AttributeKey.longKey("number"), (long) number));
        }
    }
}
