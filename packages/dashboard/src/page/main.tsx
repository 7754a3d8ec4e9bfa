/** Opens the page. The token comes behind the `#` of its address, which browsers send to nobody, and stays with this tab. */
import { render } from "preact";
import { App } from "./app.tsx";

const key = "muster-token";
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given !== null) {
  sessionStorage.setItem(key, given);
  history.replaceState(null, "", location.pathname);
}
render(<App token={given ?? sessionStorage.getItem(key) ?? ""} />, document.body);
