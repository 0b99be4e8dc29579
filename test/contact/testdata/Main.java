import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.logging.Logger;

// A server and its client, as anybody writes them: nothing here knows of telemetry.
public class Main {
    public static void main(String[] args) throws Exception {
        int requests = Integer.parseInt(args[0]);
        Logger log = Logger.getLogger("shop");
        HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/orders", exchange -> {
            log.warning("an order came");
            exchange.sendResponseHeaders(200, -1);
            exchange.close();
        });
        server.start();
        HttpClient client = HttpClient.newHttpClient();
        URI orders = URI.create("http://127.0.0.1:" + server.getAddress().getPort() + "/orders");
        for (int i = 0; i < requests; i++) {
            client.send(HttpRequest.newBuilder(orders).build(), HttpResponse.BodyHandlers.discarding());
        }
        server.stop(0);
        System.exit(0); // the agent sends what it still holds
    }
}
